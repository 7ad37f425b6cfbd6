"""Sets how many processors XLA sees in this process, which is how many it splits loops for.

When XLA compiles for a machine other than the host, it asks the system how many processors it may
use (PJRT_NPROC is read for the host only; jaxlib 0.11.2 to 0.12.0.1). So the same target would give
other bytes on a build machine with more cores. No setting changes the answer, and
`sched_setaffinity` can only make it smaller. Therefore the C library's function is replaced in
memory, in a process that compiles once and ends.
"""

import ctypes
import errno
import mmap
import os
import struct
from functools import cache


def _affinity(count: int, errno_location: int) -> bytes:
    """`int sched_getaffinity(pid_t, size_t size, cpu_set_t *mask)` in x86-64 machine code.

    The first `count` processors; EINVAL if the mask is too small for them, as the kernel has it.
    """
    whole, rest = divmod(count, 8)
    refuse = b"".join(
        (
            b"\x48\x83\xec\x08",  # sub rsp, 8
            b"\x48\xb8" + struct.pack("<Q", errno_location),  # mov rax, errno_location
            b"\xff\xd0",  # call rax
            b"\xc7\x00" + struct.pack("<I", errno.EINVAL),  # mov dword [rax], EINVAL
            b"\x48\x83\xc4\x08",  # add rsp, 8
            b"\xb8\xff\xff\xff\xff",  # mov eax, -1
            b"\xc3",  # ret
        )
    )
    return b"".join(
        (
            b"\x48\x81\xfe" + struct.pack("<I", whole + 1),  # cmp rsi, bytes needed
            b"\x73" + struct.pack("<B", len(refuse)),  # jae behind the refusal
            refuse,
            b"\x49\x89\xd0",  # mov r8, rdx (mask)
            b"\x48\x89\xf1",  # mov rcx, rsi (size)
            b"\x48\x89\xd7",  # mov rdi, rdx
            b"\x31\xc0",  # xor eax, eax
            b"\xf3\xaa",  # rep stosb: no processor
            b"\x4c\x89\xc7",  # mov rdi, r8
            b"\xb9" + struct.pack("<I", whole),  # mov ecx, whole
            b"\xb0\xff",  # mov al, 0xff
            b"\xf3\xaa",  # rep stosb: eight for each whole byte
            b"\xc6\x07" + struct.pack("<B", (1 << rest) - 1),  # mov byte [rdi], the rest
            b"\x31\xc0",  # xor eax, eax
            b"\xc3",  # ret
        )
    )


@cache
def pretend(count: int) -> bool:
    """Make this process see `count` processors; return False if its code cannot be changed."""
    if os.uname().machine != "x86_64":
        return False
    libc = ctypes.CDLL(None)
    original = ctypes.cast(libc.sched_getaffinity, ctypes.c_void_p).value
    errno_location = ctypes.cast(libc.__errno_location, ctypes.c_void_p).value
    assert original is not None and errno_location is not None, "glibc has both"
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    writable, executable = mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_EXEC
    page = libc.mmap(None, mmap.PAGESIZE, writable, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if page in (None, ctypes.c_void_p(-1).value):
        return False
    code = _affinity(count, errno_location)
    ctypes.memmove(page, code, len(code))
    jump = b"\x48\xb8" + struct.pack("<Q", page) + b"\xff\xe0"  # mov rax, page; jmp rax
    start = original - original % mmap.PAGESIZE
    length = original + len(jump) - start
    # The page may hold code that runs meanwhile, this call of mprotect included.
    every = writable | executable
    if libc.mprotect(page, mmap.PAGESIZE, executable) or libc.mprotect(start, length, every):
        return False
    ctypes.memmove(original, jump, len(jump))
    return bool(libc.mprotect(start, length, executable) == 0)
