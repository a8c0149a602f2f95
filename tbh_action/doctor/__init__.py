"""Everything that could go wrong later, looked at before anything is paid.

Each check is one small function that returns a `Check`; `examine` runs all that fit a spec, and a
run's preflight picks the ones that must hold.
"""

from __future__ import annotations

from tbh_action.doctor.check import Check, failures
from tbh_action.doctor.dataset import check_dataset, check_lfs_content
from tbh_action.doctor.github import check_comment, check_runner
from tbh_action.doctor.hub import (
    check_clock,
    check_credit,
    check_flavor,
    check_hardware,
    check_image,
    check_model,
    check_namespace,
    check_scopes,
    check_token,
)
from tbh_action.doctor.machine import (
    check_disk,
    check_git_lfs,
    check_harbor,
    check_isolation,
    check_loopback,
    check_tmux,
)

__all__ = [
    "Check",
    "check_clock",
    "check_comment",
    "check_credit",
    "check_dataset",
    "check_disk",
    "check_flavor",
    "check_git_lfs",
    "check_harbor",
    "check_hardware",
    "check_image",
    "check_isolation",
    "check_lfs_content",
    "check_loopback",
    "check_model",
    "check_namespace",
    "check_runner",
    "check_scopes",
    "check_tmux",
    "check_token",
    "failures",
]
