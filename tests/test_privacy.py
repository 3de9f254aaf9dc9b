"""Nothing printed of a trace may tell a path, a user, a host or an address."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysoverlap import read_trace
from nsysoverlap.trace.capture_facts import shareable_settings
from nsysoverlap.trace.database import open_database, probe
from nsysoverlap.trace.privacy import HIDDEN, allowed_setting, scrub, scrub_value

from .tracebuilder import TraceBuilder

SECRETS = [
    "/home/ada/run",
    "~/run",
    "~ada",
    "./ada/run",
    "../ada",
    "ada/run",
    "ada/",
    r"C:\Users\ada\run",
    "C:/Users/ada",
    r"ada\run",
    r"\\server\share",
    "$HOME/ada",
    r"%USERPROFILE%\ada",
    "https://ada:secret@example.org:8080/x?y=z",
    "gs://bucket/ada",
    "file:///home/ada",
    "10.1.2.3",
    "10.1.2.3:8476",
    "fe80::1",
    "fe80::1%eth0",
    "[2001:db8::1]:8476",
    "2001:db8:0:0:0:0:0:1",
    "::ffff:10.1.2.3",
    "::1",
    "0c:42:a1:0b:ff:01",
    "node01:8476",
    "node-01.cluster.example.org",
    "node01.cluster.local:22",
    "ada@node01",
    "ada.lovelace@node01",
    "ada:secret@node01:22",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_revealing_words_are_hidden_whole(secret: str) -> None:
    assert scrub(secret) == HIDDEN
    assert scrub(f"see {secret} for more") == f"see {HIDDEN} for more"
    assert scrub(f"--xla_dump_to={secret}") == f"--xla_dump_to={HIDDEN}"
    assert scrub(f'x="{secret}"') == f'x="{HIDDEN}"'
    assert scrub(f"a,{secret},b") in (f"a,{HIDDEN},b", f"a,{HIDDEN}")


HARMLESS = [
    "",
    "2.28.3-1",
    "2025.3.1.90-253135822126v0",
    "580.95.05",
    "0.10.2.dev20251130",
    "--xla_gpu_enable_command_buffer=",
    "--xla_gpu_memory_limit_slop_factor=95",
    "--xla_gpu_enable_latency_hiding_scheduler=true",
    "--xla_disable_hlo_passes=rematerialization,dot-merger",
    "--xla_backend_extra_options=xla_a=1,xla_b",
    "^LL128",
    "Ring,Tree",
    "mlx5_0:1,mlx5_1:1",
    "0,1,2,3",
    "GPU-8a1f04d4-1c2e-4b7a-9d2f-00aa11bb22cc",
    "cuda,cpu",
    "at::native::copy_kernel",
    "std::string",
    "12:34:56",
    "50%",
    "Not all CUDA events might have been collected.",
    "Error when processing events",
    "CUDA device 0: 1 event lost (e.g. on overflow).",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_versions_flags_and_messages_survive(text: str) -> None:
    assert scrub(text) == text
    assert scrub_value("XLA_FLAGS", text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-I/home/ada=3", HIDDEN),
        ("--home.example.org=3", f"--{HIDDEN}=3"),
        ("a\n/home/ada\tb", f"a\n{HIDDEN}\tb"),
        ("Cannot open /home/ada/x: denied", f"Cannot open {HIDDEN} denied"),
        (r"C:\Users\Ada Lovelace\x.qdrep", HIDDEN),
        (r"Cannot open 'C:\Users\ada\Merger Acme Plan\r.nsys-rep'", f"Cannot open '{HIDDEN}'"),
        ("Cannot open '/home/ada/My Plan': denied", f"Cannot open '{HIDDEN}': denied"),
        ("Cannot open /home/ada/My Secret Plan/x: denied", f"Cannot open {HIDDEN} denied"),
        ("/home/ada/a b /home/ada/c d", f"{HIDDEN} b {HIDDEN} d"),
        ("it's a job's end", "it's a job's end"),
    ],
)
def test_words_in_context(text: str, shown: str) -> None:
    assert scrub(text) == shown


@pytest.mark.parametrize("word", ["a" * 10**6, "a." * 10**5, "a:" * 10**5, "--f=" + "a" * 10**6])
def test_a_word_of_any_length_takes_no_time(word: str) -> None:
    before = time.process_time()
    assert len(scrub(word)) <= len(word)
    assert time.process_time() - before < 1.0


@given(st.text(), st.sampled_from(SECRETS), st.text())
def test_whatever_stands_around_a_secret(before: str, secret: str, after: str) -> None:
    text = scrub(f"{before} {secret} {after}")
    assert f" {secret} " not in text


def test_a_setting_whose_name_says_enough() -> None:
    assert allowed_setting("JAX_COMPILATION_CACHE_DIR")
    assert scrub_value("JAX_COMPILATION_CACHE_DIR", "harmless") == HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        *("XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "NCCL_ALGO", "NCCL_DEBUG"),
        *("NCCL_P2P_DIRECT_DISABLE", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "JAX_TRACEBACK_FILTERING"),
    ],
)
def test_settings_that_are_shown(name: str) -> None:
    assert allowed_setting(name)
    assert scrub_value(name, "true") == "true"


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "USER", "WANDB_API_KEY", "MY_XLA_FLAGS", "XLA_FLAGS2", "JAX_", "JAX", ""),
        *("JAX_COORDINATOR_ADDRESS", "NCCL_COMM_ID", "NCCL_HOSTID", "NCCL_DEBUG_FILE"),
        *("JAX_API_KEY", "JAX_token", "JAX_SECRET", "NCCL_PW", "JAX_DB_PASS", "NCCL_CRED_STORE"),
        *("JAX_PASSWORD", "JAX_USER", "NCCL_CONF_PATH", "JAX_PROXY_URL", "JAX_UNHEARD_OF"),
    ],
)
def test_settings_that_are_not(name: str) -> None:
    assert not allowed_setting(name)


FLAG = "--xla_gpu_enable_triton_gemm=false"


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        (f"--xla_dump_to=/home/ada/My Merger Plan/dump {FLAG}", f"--xla_dump_to={HIDDEN} {FLAG}"),
        (f"--xla_dump_to=/home/ada/My Merger Plan {FLAG}", f"--xla_dump_to={HIDDEN} {FLAG}"),
        (f"{FLAG} --xla_dump_to=C:\\Users\\ada\\a b", f"{FLAG} --xla_dump_to={HIDDEN}"),
        ("--xla_some_file=plan --xla_a=1", f"--xla_some_file={HIDDEN} --xla_a=1"),
        ("--xla_api_token=abc", f"--xla_api_token={HIDDEN}"),
        (f"{FLAG}  {FLAG}", f"{FLAG} {FLAG}"),
    ],
)
def test_a_flag_is_hidden_up_to_the_next_one(flags: str, shown: str) -> None:
    assert scrub_value("XLA_FLAGS", flags) == shown


def test_what_the_export_calls_its_machine_and_user(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10)
    builder.env("HOSTNAME", "lovelace.example.org")
    builder.env("USER", "ada")
    builder.env("HOST", "42")
    builder.diagnostic(2, "lovelace lost ada's 42 events in adaptive mode of lovelace-2")
    trace = read_trace(builder.write(tmp_path / "t.sqlite"))
    said = f"{HIDDEN} lost {HIDDEN}'s 42 events in adaptive mode of lovelace-2"
    assert trace.facts.diagnostics == ((2, said),)


def test_keys_of_settings_tell_nothing(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10)
    builder.meta("/home/ada/x:ENVIRONMENT_VARIABLE", 'JAX_PLATFORMS="cuda"', capture=True)
    path = builder.write(tmp_path / "t.sqlite")
    with open_database(path) as connection:
        found = shareable_settings(connection, probe(connection, path.name))
    assert found == [("ENVIRONMENT_VARIABLE", "JAX_PLATFORMS", 'JAX_PLATFORMS="cuda"')]


def test_a_whole_export(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.kernel(0, 10)
    builder.env("XLA_FLAGS", "--xla_dump_to=/home/ada --xla_gpu_memory_limit_slop_factor=95")
    builder.env("NCCL_COMM_ID", "ada-node:1")
    builder.env("JAX_COORDINATOR_ADDRESS", "ada-node")
    builder.env("HF_TOKEN", "ada-token")
    builder.meta("PROCESS_0:ENVIRONMENT_VARIABLE", b"JAX_PLATFORMS=c\xffda", capture=True)
    builder.meta("PROCESS_12:ENVIRONMENT_VARIABLE", "NCCL_ALGO=Ring", capture=True)
    builder.meta("PROCESS_0:COMMAND_LINE", "/home/ada/train.py", capture=True)
    builder.meta("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node", capture=True)
    builder.meta("EXPORT_FILE", "/home/ada/report.sqlite")
    builder.diagnostic(2, "cannot write /home/ada/x on ada@node")
    (tmp_path / "ada").mkdir()
    trace = read_trace(builder.write(tmp_path / "ada" / "t.sqlite"))
    assert trace.info.capture == {
        "CUDA_GRAPH_TRACE_MODE": "Node",
        "JAX_PLATFORMS": "c\ufffdda",
        "NCCL_ALGO": "Ring",
        "XLA_FLAGS": f"--xla_dump_to={HIDDEN} --xla_gpu_memory_limit_slop_factor=95",
    }
    assert trace.facts.diagnostics == ((2, f"cannot write {HIDDEN} on {HIDDEN}"),)
    assert "ada" not in repr(trace.info) + repr(trace.facts)
