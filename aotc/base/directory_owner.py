"""Checks that only the current user can write to a directory of code."""

import grp
import os
import pwd
import stat
from pathlib import Path

ROOT = 0

ACCESS_LIST = "system.posix_acl_access"
"""The attribute of a file with an access list (acl(5)); the mode's bits of the group are then the
upper limit for everybody on the list.
"""


def other_writers(folder: Path) -> str:
    """Return who else can write to a folder besides this user and root; "" for nobody.

    The user's own group, which most systems create for each user, does not count. Raises OSError.
    """
    status = folder.stat()
    if not is_ours(status):
        return f"another user, {status.st_uid}"
    if status.st_mode & stat.S_IWOTH:
        return "every user"
    if status.st_mode & stat.S_IWGRP:
        if _has_access_list(folder):
            return "users in its access list"
        return _others_of_group(status.st_gid)
    return ""


def is_ours(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user or to root."""
    return status.st_uid in (os.geteuid(), ROOT)


def is_private(group: grp.struct_group, user: pwd.struct_passwd) -> bool:
    """Return whether a group is a user's own: their main one, named after them, without members.

    Systems do not always list for which other users a group is the main one.
    """
    return (group.gr_gid, group.gr_name) == (user.pw_gid, user.pw_name) and {*group.gr_mem} <= {
        user.pw_name
    }


def _others_of_group(number: int) -> str:
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return f"the group {number}"
    try:
        private = is_private(group, pwd.getpwuid(os.geteuid()))
    except KeyError:
        private = False
    return "" if private else f"the group {group.gr_name}"


def _has_access_list(folder: Path) -> bool:
    try:
        os.getxattr(folder, ACCESS_LIST)
    except OSError:  # ENODATA, or a file system without such lists
        return False
    return True
