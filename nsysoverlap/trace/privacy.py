"""What may be shown of a trace: an allow-list of settings, with paths and addresses removed."""

from __future__ import annotations

import re

HIDDEN = "…"

_ALLOWED = re.compile(
    r"^(XLA_FLAGS|JAX_\w+|NCCL_\w+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_MAX_CONNECTIONS"
    r"|SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMIX_RANK|PMI_RANK|RANK)$"
)
_SECRET_NAME = re.compile(
    r"(DIR|PATH|FILE|URL|URI|ADDR|ADDRESS|HOST|HOSTID|SERVER|ENDPOINT|COMM_ID|TOKEN|KEY|SECRET"
    r"|PASSWORD|PASSWD|CREDENTIAL|AUTH|USER)(S|ES|NAME|_\w+)?$",
    re.IGNORECASE,
)
# Searching a word takes time that grows with the square of its length.
_LONGEST_WORD = 2000
_FLAG = re.compile(r"(--?[\w-]+=)(.*)", re.DOTALL)
# A path, or anything with a user, a port, an IP address or a domain name in it.
_REVEALING = re.compile(
    r"""
    [\w.+%-]+(?::[^\s@"',;]*)?@[^\s"',;]+                                   # user:password@host
    | \w+://[^\s"',;]*                                                      # URL
    | (?:\b[A-Za-z]:)?[\w.+~%$-]*[\\/][^\s"',;]*                            # path
    | (?<![\w.])~[\w.-]*                                                    # home of a user
    | (?<![\w:])\[?(?:(?:[\da-fA-F]{1,4}:){5,7}[\da-fA-F]{1,4}              # MAC or IPv6,
      |(?:(?:[\da-fA-F]{1,4}:)+:|::)(?:[\da-fA-F]{1,4}:)*[\da-fA-F]{0,4})   # shortened IPv6,
      (?:\.\d{1,3}){0,3}(?![\w:])(?:%\w+)?\]?(?::\d+)?                      # ending in an IPv4
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b                                  # IPv4
    | \b[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}(?::\d+)?\b                        # host.domain
    | \b[A-Za-z][\w-]*:\d{2,5}\b                                            # host:port
    """,
    re.VERBOSE,
)


def allowed_setting(name: str) -> bool:
    """Whether an environment variable of the traced program may be shown at all."""
    return bool(_ALLOWED.match(name))


def scrub_value(name: str, value: str) -> str:
    """The value of an allowed variable with paths, hosts and addresses replaced by `…`."""
    if _SECRET_NAME.search(name):
        return HIDDEN
    return scrub(value)


def scrub(text: str) -> str:
    """Text with paths, hosts, users and addresses replaced by `…`."""
    words = re.split(r"(\s+)", text)
    return "".join(_scrub_word(word) for word in words)


def _scrub_word(word: str) -> str:
    # Flags keep their name: only what follows the equals sign can be revealing.
    flag = _FLAG.fullmatch(word)
    name, value = flag.groups() if flag else ("", word)
    if len(value) > _LONGEST_WORD:
        return f"{name}{HIDDEN}"
    return f"{name}{_REVEALING.sub(HIDDEN, value)}"
