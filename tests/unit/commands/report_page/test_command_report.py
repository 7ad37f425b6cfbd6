"""`aotc report`: exit codes, documents, what it replaces, and whom it asks."""

from pathlib import Path

from aotc_runtime.base.digest import sha256
from tests.conftest import Bundle, Run


def test_a_page_is_written_and_told_of(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    bundle, policy = digits_bundle
    page = tmp_path / "report.html"
    done = aotc("report", bundle, "-o", page, "--json")
    assert (done.exit_code, done.stderr, done.document["ok"]) == (0, "", True)
    assert (done.document["signatures_verified"], done.document["signers"]) == (False, [])
    assert done.document["digest"] == sha256(page.read_bytes())
    assert done.document["size_bytes"] == page.stat().st_size
    trusted = aotc("report", bundle, "-o", page, "--trust", policy, "--json")
    assert trusted.document["signatures_verified"] is True and trusted.document["signers"]
    assert trusted.document["root_digest"] == done.document["root_digest"]
    text = aotc("report", bundle, "-o", page)
    assert "signatures not checked" in text.stdout and sha256(page.read_bytes()) in str(
        done.document
    )


def test_policy_keys_are_shown_by_name(aotc: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    stated = 'holder = "release"\n'
    for more, shown in (("", "release"), ('name = "laptop"\n', "laptop, held by release")):
        policy = tmp_path / "holder.toml"
        text = digits_bundle[1].read_text()
        lines = [line for line in text.splitlines() if not line.startswith("name = ")]
        text = "\n".join(lines).replace("[[keys]]\n", f"[[keys]]\n{stated}{more}")
        policy.write_text(text.replace("schema = 1\n", 'schema = 1\nname = "digits"\n', 1))
        assert aotc("report", digits_bundle[0], "-o", page, "--trust", policy).exit_code == 0
        assert f">{shown}<" in page.read_text() and "unnamed" not in page.read_text()


def test_page_is_replaced(aotc: Run, refused: Run, digits_bundle: Bundle, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("<!doctype html>\n<p>somebody's home page</p>\n")
    refused(["report", digits_bundle[0], "-o", page], 2, "AOTC-E004")
    assert "home page" in page.read_text()
    page.unlink()
    assert aotc("report", digits_bundle[0], "-o", page).exit_code == 0
    assert aotc("report", digits_bundle[0], "-o", page).exit_code == 0
    refused(["report", digits_bundle[0], "-o", tmp_path / "none" / "x.html"], 2, "AOTC-E003")


def test_what_a_policy_refuses_gets_no_page(
    refused: Run, digits_bundle: Bundle, lm_bundle: Bundle, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    refused(["report", lm_bundle[0], "--trust", digits_bundle[1], "-o", page], 5, "AOTC-E302")
    damaged = tmp_path / "damaged.aotb"
    data = bytearray(digits_bundle[0].read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    refused(["report", damaged, "-o", page], 5, "AOTC-E201")
    assert not page.exists()
