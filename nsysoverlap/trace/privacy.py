"""What may be shown of a trace: an allow-list of settings, with paths and addresses removed."""

from __future__ import annotations

import re
from collections.abc import Collection

HIDDEN = "…"

_SHOWN = frozenset(
    """
    XLA_FLAGS XLA_CLIENT_MEM_FRACTION XLA_CLIENT_PREALLOCATE XLA_PYTHON_CLIENT_MEM_FRACTION
    XLA_PYTHON_CLIENT_PREALLOCATE XLA_PYTHON_CLIENT_ALLOCATOR
    CUDA_VISIBLE_DEVICES CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING CUDA_DEVICE_ORDER
    SLURM_PROCID OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK RANK
    JAX_PROCESS_ID JAX_NUM_PROCESSES JAX_LOCAL_DEVICE_IDS JAX_PLATFORMS JAX_ENABLE_X64
    JAX_DEFAULT_MATMUL_PRECISION JAX_DISABLE_JIT JAX_OPTIMIZATION_LEVEL JAX_MEMORY_FITTING_LEVEL
    JAX_ENABLE_PGLE JAX_PGLE_PROFILING_RUNS JAX_ENABLE_COMPILATION_CACHE JAX_COMPILATION_CACHE_DIR
    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS
    JAX_TRACEBACK_FILTERING JAX_USE_SHARDY_PARTITIONER JAX_THREEFRY_PARTITIONABLE JAX_DEBUG_NANS
    JAX_LOG_COMPILES JAX_ENABLE_CHECKS JAX_ENABLE_MEMORIES
    NCCL_VERSION NCCL_ALGO NCCL_PROTO NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_NVLS_ENABLE
    NCCL_NVLS_NCHANNELS NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_P2P_DIRECT_DISABLE NCCL_SHM_DISABLE
    NCCL_IB_DISABLE NCCL_IB_HCA NCCL_IB_TIMEOUT NCCL_IB_GID_INDEX NCCL_IB_QPS_PER_CONNECTION
    NCCL_SOCKET_IFNAME NCCL_NET NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_CROSS_NIC
    NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_NTHREADS NCCL_BUFFSIZE
    NCCL_LAUNCH_MODE NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_GRAPH_REGISTER
    NCCL_GRAPH_MIXING_SUPPORT NCCL_COLLNET_ENABLE NCCL_DMABUF_ENABLE NCCL_MNNVL_ENABLE
    NCCL_LOCAL_REGISTER
    """.split()  # noqa: SIM905 - a list of names is read by eye
)
"""The variables of the environment that may be shown: all others are unknown here, and may be
anything.
"""
_SECRET_NAME = re.compile(
    r"(DIR|PATH|FILE|URL|URI|ADDR|ADDRESS|HOST|HOSTID|SERVER|ENDPOINT|COMM_ID|AUTH|USER)"
    r"(S|ES|NAME|_\w+)?$|KEY|TOKEN|PASS|SECRET|PW|CRED",
    re.IGNORECASE,
)
_SECRET_FLAG = re.compile(
    r"(DIR|PATH|FILE|URL|URI|ADDR|ADDRESS|HOST|SERVER|ENDPOINT)S?=$"
    r"|KEY|TOKEN|PASS(?!ES)|SECRET|PW|CRED",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(r"(true|false|-?[\d.]+)?", re.IGNORECASE)

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


_PATH_START = re.compile(r"""["'(\[]*(?:--?[\w-]+=)?["']?(?:/|~|\\\\|[A-Za-z]:[\\/]|\w+://)""")
"""How a word begins that is a path from its root."""
_QUOTED = re.compile(r"""(?<!\w)(["'])([^"'\n]*)\1""")
_FLAGS = re.compile(r"\s+(?=--?[A-Za-z])")


def allowed_setting(name: str) -> bool:
    """Whether an environment variable of the traced program may be shown at all."""
    return name in _SHOWN


def scrub_value(name: str, value: str) -> str:
    """The value of an allowed variable with paths, hosts and addresses replaced by `…`."""
    if _SECRET_NAME.search(name):
        return HIDDEN
    # A value that tells something is hidden up to the next flag: paths may hold blanks.
    parts = _FLAGS.split(value)
    return " ".join(_scrub_flag(part) for part in parts) if len(parts) > 1 else _scrub_flag(value)


def _scrub_flag(text: str) -> str:
    flag = _FLAG.fullmatch(text)
    if not flag or _PLAIN_VALUE.fullmatch(flag[2]):
        return scrub(text)
    tells = _SECRET_FLAG.search(flag[1]) or scrub(flag[2]) != flag[2]
    return f"{flag[1]}{HIDDEN}" if tells else text


def scrub(text: str, names: Collection[str] = ()) -> str:
    """Text with paths, hosts, users and addresses replaced by `…`, and whole words in `names`."""
    text = _QUOTED.sub(_scrub_quoted, text)
    words = re.split(r"(\s+)", text)
    shown: list[str] = []
    root = -1
    for i, word in enumerate(words):
        clean = _scrub_word(word)
        if root >= 0 and re.search(r"[\\/]", word) and not _PATH_START.match(word):
            # The rest of a path with blanks in it, and what stands between.
            shown[root + 1 :] = [""] * (i - root)
            continue
        if _PATH_START.match(word):
            root = i
        shown.append(clean)
    if names:
        known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        return re.sub(rf"(?<![\w-])(?:{known})(?![\w-])", HIDDEN, "".join(shown))
    return "".join(shown)


def _scrub_quoted(found: re.Match[str]) -> str:
    """A quoted text is a path as a whole, if any word of it is one."""
    inside = found[2]
    tells = re.search(r"\s", inside) and any(_PATH_START.match(w) for w in inside.split())
    return f"{found[1]}{HIDDEN}{found[1]}" if tells else found[0]


def _scrub_word(word: str) -> str:
    # Flags keep their name: only what follows the equals sign can be revealing.
    flag = _FLAG.fullmatch(word)
    name, value = flag.groups() if flag else ("", word)
    if len(value) > _LONGEST_WORD:
        return f"{name}{HIDDEN}"
    return f"{name}{_REVEALING.sub(HIDDEN, value)}"
