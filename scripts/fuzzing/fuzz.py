"""Coverage-guided fuzzing of one reader: `python -m scripts.fuzzing.fuzz READER CORPUS [OPTIONS]`.

By atheris (extra `fuzz`), which stops at the first exception that is no AotcError, and writes down
the input that raised it. OPTIONS are libFuzzer's.
"""

import sys

import atheris

with atheris.instrument_imports(include=["aotc", "aotc_runtime", "tomllib", "tuf"]):
    from scripts.fuzzing.readers import READERS, read


def main() -> None:
    name = sys.argv.pop(1)
    assert name in READERS, f"one of {', '.join(READERS)}"
    read(name, b"")  # imports libraries, which takes longer than an input may
    atheris.Setup(sys.argv, lambda data: read(name, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
