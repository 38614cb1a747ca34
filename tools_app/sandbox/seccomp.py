"""The system calls that commands in a sandbox are refused, one list for every kind of sandbox.

The memory that `memfd_create`, `shmget`, `msgget` and the like allocate belongs to no process, so
no limit would count it. The other calls are entry points into the kernel that programs in a sandbox
do not need. All of them return "not implemented", which programs can handle.
"""

from __future__ import annotations

import platform
import struct
from typing import Any

from tools_app.exceptions import SandboxUnavailable

_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _NOT_IMPLEMENTED, _DONE = 0x7FFF0000, 0x00050000 | 38, 0x00050000
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET = 0, 4
#: The kernel's identifier of an architecture, and the column of its numbers below.
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
REFUSED = {
    # Memory that belongs to no process.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Other processes, and file handles that bypass paths.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # Further namespaces and mounts.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # These tell where on the machine's disk the mounted folders are.
    "statmount": (457, 457),
    "listmount": (458, 458),
    # Large or rarely used parts of the kernel.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # The machine itself.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
}
#: Calls from this number on are newer than this list, and have the same number everywhere.
YOUNGER = 463
IOCTL, SOCKET, SET_OPTION = (16, 29), (41, 198), (54, 208)
#: A local sandbox needs these to hide its mounts. Commands lack the capabilities to use them.
SETUP = frozenset({"unshare", "chroot"})
#: These inject input into a terminal, and use features of the Linux console.
REFUSED_IOCTLS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C}
#: Unix, IPv4, IPv6 and netlink. Others may lead out of the network namespace: vsock leads to the
#: host of this virtual machine.
SOCKET_FAMILIES = (1, 2, 10, 16)
SOCKET_LEVEL = 1
BUFFER_OPTIONS = {"SO_SNDBUF": 7, "SO_RCVBUF": 8, "SO_SNDBUFFORCE": 32, "SO_RCVBUFFORCE": 33}
_NEW_USER_NAMESPACE, _NEW_MOUNT_NAMESPACE = 0x10000000, 0x00020000
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 16, 24, 32


def program(machine: str = "", *, fixed_buffers: bool = False) -> bytes:
    """Return the filter as a BPF program for the kernel.

    With `fixed_buffers`, programs that set the size of a socket's buffers are told that it was set,
    and it stays at its default.
    """
    architecture, column = _known(machine or platform.machine())
    refused = [numbers[column] for name, numbers in REFUSED.items() if name not in SETUP]
    lines: list[str | tuple[int, int, str, str]] = [
        (_LOAD, _ARCHITECTURE_OFFSET, "", ""),
        # Another architecture has other numbers, so all of its calls are refused.
        (_EQUALS, architecture, "", "refuse"),
        (_LOAD, _NUMBER_OFFSET, "", ""),
        (_AT_LEAST, YOUNGER, "refuse", ""),
        *((_EQUALS, number, "refuse", "") for number in refused),
        (_EQUALS, REFUSED["unshare"][column], "unshare", ""),
        (_EQUALS, IOCTL[column], "ioctl", ""),
        (_EQUALS, SOCKET[column], "socket", ""),
        (_EQUALS, SET_OPTION[column], "set option" if fixed_buffers else "allow", "allow"),
        "unshare",
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        (_EQUALS, _NEW_MOUNT_NAMESPACE, "allow", "refuse"),
        "ioctl",
        (_LOAD, _SECOND_ARGUMENT, "", ""),
        *((_EQUALS, number, "refuse", "") for number in REFUSED_IOCTLS.values()),
        (_RETURN, _ALLOW, "", ""),
        "socket",
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        *((_EQUALS, family, "allow", "") for family in SOCKET_FAMILIES),
        (_RETURN, _NOT_IMPLEMENTED, "", ""),
        "set option",
        (_LOAD, _SECOND_ARGUMENT, "", ""),
        (_EQUALS, SOCKET_LEVEL, "", "allow"),
        (_LOAD, _THIRD_ARGUMENT, "", ""),
        *((_EQUALS, number, "ignore", "") for number in BUFFER_OPTIONS.values()),
        "allow",
        (_RETURN, _ALLOW, "", ""),
        "refuse",
        (_RETURN, _NOT_IMPLEMENTED, "", ""),
        "ignore",
        (_RETURN, _DONE, "", ""),
    ]
    return _assembled(lines)


def _assembled(lines: list[str | tuple[int, int, str, str]]) -> bytes:
    """Replace labels by the distances of jumps. An empty label stands for the next line."""
    places: dict[str, int] = {}
    for line in lines:
        if isinstance(line, str):
            places[line] = sum(not isinstance(other, str) for other in lines[: lines.index(line)])
    packed = []
    for nth, (code, value, true, false) in enumerate(x for x in lines if not isinstance(x, str)):
        jumps = (places[name] - nth - 1 if name else 0 for name in (true, false))
        packed.append(struct.pack("=HBBI", code, *jumps, value))
    return b"".join(packed)


def profile(machine: str = "") -> dict[str, Any]:
    """Return the filter as a profile for container engines, which refuse other architectures.

    A container has no user namespace that limits further ones, so creating one is refused here;
    `clone3` passes its flags behind a pointer, and programs fall back to `clone`.
    """
    machine = machine or platform.machine()
    _known(machine)
    refused = {"action": "SCMP_ACT_ERRNO", "errnoRet": 38}
    rules: list[dict[str, Any]] = [{"names": [*REFUSED, "clone3"], **refused}]
    tests = [("clone", 0, _NEW_USER_NAMESPACE, _NEW_USER_NAMESPACE, "SCMP_CMP_MASKED_EQ")]
    for number in REFUSED_IOCTLS.values():
        tests.append(("ioctl", 1, 0xFFFFFFFF, number, "SCMP_CMP_MASKED_EQ"))
    for family in range(max(SOCKET_FAMILIES)):
        if family not in SOCKET_FAMILIES:
            tests.append(("socket", 0, family, 0, "SCMP_CMP_EQ"))
    tests.append(("socket", 0, max(SOCKET_FAMILIES), 0, "SCMP_CMP_GT"))
    for name, index, value, second, test in tests:
        argument = {"index": index, "value": value, "valueTwo": second, "op": test}
        rules.append({"names": [name], "args": [argument], **refused})
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [f"SCMP_ARCH_{machine.upper()}"],
        "syscalls": rules,
    }


def _known(machine: str) -> tuple[int, int]:
    if machine not in ARCHITECTURES:
        names = " and ".join(ARCHITECTURES)
        raise SandboxUnavailable(f"The sandbox supports {names} processors, not {machine}.")
    return ARCHITECTURES[machine]
