"""Others who may write to a folder: a group of several, an access list, everybody."""

import errno
import grp
import os
import pwd
import struct
from pathlib import Path

import pytest

from aotc.base.directory_owner import ACCESS_LIST, is_private, other_writers


def user(name: str, group: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", 1000, group, "", "/", "/bin/sh"))


@pytest.mark.parametrize(
    ("group", "private"),
    [
        (("ana", "x", 1000, []), True),
        (("ana", "x", 1000, ["ana"]), True),
        (("ana", "x", 1000, ["ana", "bob"]), False),
        (("users", "x", 1000, []), False),
        (("ana", "x", 1001, []), False),
    ],
)
def test_own_group_is_private(group: tuple[str, str, int, list[str]], private: bool) -> None:
    assert is_private(grp.struct_group(group), user("ana", 1000)) is private


def other_groups() -> list[int]:
    """Groups that are not the user's own, to which files can be given; the last has no name."""
    known = {each.gr_gid for each in grp.getgrall()} - {os.getgid()}
    if os.geteuid() == 0:
        return [min(known), max(known) + 1]
    return [number for number in os.getgroups() if number in known]


def test_modes_say_who_may_write(tmp_path: Path) -> None:
    for number in other_groups():
        os.chown(tmp_path, -1, number)
        says_who_may_write(tmp_path, number)


def says_who_may_write(tmp_path: Path, number: int) -> None:
    names = {each.gr_gid: each.gr_name for each in grp.getgrall()}
    named = f"the group {names.get(number, number)}"
    for mode, others in [(0o755, ""), (0o775, named), (0o1775, named), (0o777, "every user")]:
        tmp_path.chmod(mode)
        assert other_writers(tmp_path) == others, oct(mode)


def test_the_group_of_the_user_alone_is_nobody_else(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid())
    group = grp.getgrgid(me.pw_gid)
    os.chown(tmp_path, -1, me.pw_gid)
    tmp_path.chmod(0o775)
    expected = "" if is_private(group, me) else f"the group {group.gr_name}"
    assert other_writers(tmp_path) == expected


def test_whoever_an_access_list_names_may_write(tmp_path: Path) -> None:
    """acl(5): version 2, then tag, rights and id of each entry, as the kernel keeps them."""
    nobody, everything, write = 0xFFFFFFFF, 7, 6
    owner, named_user, group, mask, other = 1, 2, 4, 16, 32
    entries = [
        (owner, everything, nobody),
        (named_user, everything, 4242),
        (group, 5, nobody),
        (mask, write, nobody),
        (other, 5, nobody),
    ]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.chown(tmp_path, -1, pwd.getpwuid(os.geteuid()).pw_gid)
    try:
        os.setxattr(tmp_path, ACCESS_LIST, listed)
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
        pytest.skip("this file system has no access lists")
    assert other_writers(tmp_path) == "users in its access list"
    tmp_path.chmod(0o755)
    assert other_writers(tmp_path) == "", "the mask forbids it"
