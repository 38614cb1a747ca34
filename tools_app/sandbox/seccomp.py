"""The system calls that commands in a sandbox do not get.

What `memfd_create`, `shmget`, `msgget` and their kin hold in memory belongs to no process, so no
limit would see it. The others are doors into the kernel that programs in a sandbox have no use for. All of them answer
"not implemented", which programs know how to live with.
"""

from __future__ import annotations

import platform
import struct

from config.faults import SandboxUnavailable

_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NOT_IMPLEMENTED = 0x7FFF0000, 0x00050000 | 38
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4
#: On x86-64 a second numbering of the same calls starts here.
_SECOND_NUMBERING = 0x40000000


#: The kernel's name of an architecture, and the column of its numbers below.
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
REFUSED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
}


def program(machine: str = "") -> bytes:
    """The filter as the kernel loads it."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        names = " and ".join(ARCHITECTURES)
        raise SandboxUnavailable(f"The local sandbox knows {names} processors, not {machine}.")
    architecture, column = ARCHITECTURES[machine]
    refused = [(_EQUALS, numbers[column]) for numbers in REFUSED.values()]
    checks = [(_AT_LEAST, _SECOND_NUMBERING), *refused]
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        # Another architecture numbers its calls otherwise: none of them is let through.
        (_EQUALS, 1, 0, architecture),
        (_RETURN, 0, 0, _NOT_IMPLEMENTED),
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        *((code, len(checks) - nth, 0, value) for nth, (code, value) in enumerate(checks)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _NOT_IMPLEMENTED),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
