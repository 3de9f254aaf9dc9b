"""The brute-force model agrees with a drawing worked out by hand."""

from __future__ import annotations

from .brute import extent, overlap, time_budget


def test_brute_model_by_hand() -> None:
    #  compute .####....##.    comm .....##..... h2d ...######... d2h ........####  other .......##
    spans = [
        ("compute", 1, 5),
        ("compute", 9, 11),
        ("comm", 4, 7),
        ("h2d", 3, 9),
        ("h2d", 4, 6),
        ("d2h", 8, 12),
        ("other", 7, 9),
    ]
    window = extent(spans)
    assert window == (1, 12)
    assert overlap(spans, "h2d", window) == {
        "n": 2,
        "busy_ns": 8,
        "wall_ns": 6,
        "hidden_by_compute_ns": 2,
        "hidden_by_comm_ns": 2,
        "exposed_ns": 2,
        "exposed_under_other_ns": 2,
    }
    both = overlap(spans, "both", (4, 12))
    assert (both["n"], both["busy_ns"], both["wall_ns"]) == (2, 11, 8)
    assert time_budget(spans, (0, 13)) == {
        "compute_ns": 6,
        "comm_ns": 2,
        "transfer_ns": 3,
        "other_ns": 0,
        "opaque_ns": 0,
        "idle_ns": 2,
    }
