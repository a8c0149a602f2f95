"""What the Hub says: token, namespace, credit, hardware, model, clock."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import httpx

from tbh_action.doctor.check import Check, fail, ok, warn
from tbh_action.policy.hardware import flavors_of
from tbh_action.server.hub_errors import explain, hub_errors, status_of

if TYPE_CHECKING:
    from huggingface_hub import HfApi, JobHardwareInfo

# The fine-grained permission to start and cancel jobs, as `whoami` spells it.
JOB_PERMISSION: Final = "job.write"
_SETTINGS: Final = "https://huggingface.co/settings"
_SKEW_WARN: Final = 60.0
_SKEW_FAIL: Final = 600.0
# repository[:tag][@digest], the repository with an optional registry host and port.
_IMAGE: Final = re.compile(
    r"(?P<name>[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9._-]+)*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def check_token(api: HfApi) -> tuple[Check, dict[str, Any]]:
    """Does the Hub know the token? Also returns whose it is (`whoami`), {} when it does not."""
    from huggingface_hub.errors import LocalTokenNotFoundError

    try:
        whoami: dict[str, Any] = api.whoami(cache=True)
    except LocalTokenNotFoundError:
        cure = f"set HF_TOKEN, or run `hf auth login` (tokens: {_SETTINGS}/tokens)"
        return fail("token", "there is none", cure), {}
    except UnicodeEncodeError:
        cure = f"copy it once more from {_SETTINGS}/tokens and set it as HF_TOKEN"
        return fail("token", "it holds characters that no token has", cure), {}
    except hub_errors() as error:
        return _token_trouble(api, error), {}
    return ok("token", f"of {whoami.get('name', 'an unknown user')}"), whoami


def _token_trouble(api: HfApi, error: Exception) -> Check:
    status = status_of(error)
    if status in (401, 403):
        return fail(
            "token",
            "the Hub does not know it",
            f"make a new one at {_SETTINGS}/tokens and set it as HF_TOKEN",
        )
    if status == 429:
        return warn("token", "the Hub asks for fewer look-ups (429)", "wait a minute, try again")
    return fail(
        "token",
        f"the Hub at {api.endpoint} cannot be asked: {explain(error)}",
        "check the network, HF_ENDPOINT, and https://status.huggingface.co",
    )


def check_scopes(whoami: dict[str, Any], namespace: str | None) -> Check:
    """May the token start jobs in the namespace?"""
    name = "token scopes"
    token = (whoami.get("auth") or {}).get("accessToken") or {}
    role = token.get("role")
    payer = namespace or whoami.get("name")
    cure = f"give it the permission {JOB_PERMISSION!r} for {payer} at {_SETTINGS}/tokens"
    if role == "write":
        return ok(name, "a write token, which may start jobs")
    if role == "read":
        return fail(name, "a read token, which cannot start jobs", cure)
    if role == "fineGrained":
        if JOB_PERMISSION in _granted(token.get("fineGrained") or {}, str(payer)):
            return ok(name, f"fine-grained, may start jobs in {payer}")
        return fail(name, f"fine-grained, without the right to start jobs in {payer}", cure)
    return warn(name, "the Hub does not say what this token may do", f"if starting fails: {cure}")


def _granted(grants: dict[str, Any], namespace: str) -> set[str]:
    permissions = set(grants.get("global") or [])
    for scope in grants.get("scoped") or []:
        if (scope.get("entity") or {}).get("name") == namespace:
            permissions |= set(scope.get("permissions") or [])
    return permissions


def check_namespace(whoami: dict[str, Any], namespace: str | None) -> Check:
    """Is the namespace that pays the user, or an organisation where the user may write?"""
    user = whoami.get("name")
    if namespace is None or namespace == user:
        return ok("namespace", f"{user} pays")
    organisations = {org.get("name"): org for org in whoami.get("orgs") or []}
    if namespace not in organisations:
        near = difflib.get_close_matches(namespace, [str(user), *map(str, organisations)], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return fail(
            "namespace",
            f"{user} is no member of {namespace}",
            f"{hint}give --namespace one of: {', '.join([str(user), *map(str, organisations)])}",
        )
    role = organisations[namespace].get("roleInOrg")
    if role == "read":
        return fail(
            "namespace",
            f"{user} may only read in {namespace}",
            f"ask an administrator of {namespace} for the role 'write'",
        )
    return ok("namespace", f"{namespace} pays, {user} is a member" + (f" ({role})" if role else ""))


def check_credit(whoami: dict[str, Any], namespace: str | None) -> Check:
    """Can the namespace pay? The Hub says whether a payment method is set, not what is left."""
    payer = whoami
    if namespace and namespace != whoami.get("name"):
        payer = next((o for o in whoami.get("orgs") or [] if o.get("name") == namespace), {})
    can_pay = payer.get("canPay")
    billing = f"look at {_SETTINGS}/billing"
    if can_pay is True:
        return ok("credit", "a payment method is set; the Hub does not tell what is left")
    if can_pay is False:
        return warn("credit", "no payment method is set", f"prepaid credit may do; {billing}")
    return warn("credit", "the Hub does not say whether the namespace can pay", billing)


def check_hardware(api: HfApi) -> tuple[Check, list[JobHardwareInfo]]:
    """The list of hardware with prices, [] when the Hub does not give it."""
    try:
        hardware = api.list_jobs_hardware()
    except hub_errors(KeyError, ValueError) as error:
        return fail(
            "hardware",
            f"the Hub does not list its hardware: {explain(error)}",
            "check the token and the network, then try again",
        ), []
    return ok("hardware", f"{len(hardware)} flavors"), hardware


def check_flavor(hardware: Sequence[JobHardwareInfo], flavor: str, use: str) -> Check:
    """Does the flavor exist, what is it, what does it cost? `use`: `server` or `sandbox`."""
    name = f"{use} flavor"
    found = next((machine for machine in hardware if machine.name == flavor), None)
    if found is None:
        known = [machine.name for machine in hardware]
        near = difflib.get_close_matches(flavor, known, n=3) or known[:8]
        return fail(
            name,
            f"the Hub has no {flavor!r}",
            f"did you mean {', '.join(near)}? `hf jobs hardware` lists all",
        )
    gpu = found.accelerator
    what = f"{found.cpu}, {found.ram}" + (f", {gpu.quantity} × {gpu.model}" if gpu else "")
    price = flavors_of([found])[flavor].usd_per_minute
    cost = "price unknown" if price is None else f"${price * 60:.2f} an hour"
    return ok(name, f"{flavor} ({what}): {cost}")


def check_image(image: str) -> Check:
    """Is the image's name well formed, and does it always mean the same image?"""
    if image.startswith(("hf.co/spaces/", "https://huggingface.co/spaces/")):
        return ok("image", f"the Space {image}")
    parts = _IMAGE.fullmatch(image)
    if parts is None:
        return fail("image", f"{image!r} is no image name", "write it like org/name:tag")
    if parts["digest"]:
        return ok("image", f"{parts['name']}, pinned by digest")
    if parts["tag"] in (None, "latest", "nightly", "main", "dev", "server", "server-cuda"):
        return warn(
            "image",
            f"{image} moves: the next run may get another server",
            "pin a version's tag or a digest in the recipe",
        )
    return ok("image", f"{image}, a fixed tag")


def check_model(api: HfApi, model: str, revision: str | None = None) -> Check:
    """Does the model exist, and may the token download it?"""
    from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

    page = f"https://huggingface.co/{model}"
    try:
        info = api.model_info(model, revision=revision)
        if info.gated:
            api.auth_check(model)
    except GatedRepoError:
        return fail("model", f"{model} is gated for this token", f"accept its terms at {page}")
    except RevisionNotFoundError:
        return fail(
            "model", f"{model} has no revision {revision!r}", f"look at {page}/commits/main"
        )
    except hub_errors() as error:
        if status_of(error) in (401, 403, 404):
            return fail(
                "model",
                f"the Hub shows this token no {model}",
                "check the spelling, and that the token may read it",
            )
        return warn("model", f"{model} cannot be looked up: {explain(error)}", "try again later")
    return ok(
        "model", f"{model} at {str(info.sha)[:10]}" + (", gated, granted" if info.gated else "")
    )


def check_clock(endpoint: str) -> Check:
    """Our clock against the Hub's `Date` header: time-outs and "the latest wins" rest on it."""
    try:
        response = httpx.head(endpoint, timeout=10, follow_redirects=False)
        theirs = parsedate_to_datetime(response.headers["date"])
    except (httpx.HTTPError, KeyError, ValueError) as error:
        return warn("clock", f"cannot be compared: {explain(error)}", "check the network")
    return judge_skew((datetime.now(UTC) - theirs).total_seconds())


def judge_skew(seconds: float) -> Check:
    """`seconds`: our time minus the Hub's."""
    off = abs(seconds)
    if off <= _SKEW_WARN:
        return ok("clock", "agrees with the Hub's to the minute")
    words = f"{off:.0f} s {'ahead of' if seconds > 0 else 'behind'} the Hub's"
    if off <= _SKEW_FAIL:
        return warn("clock", words, "start the time service (`timedatectl set-ntp true`)")
    return fail("clock", words, "set the clock (`timedatectl set-ntp true`)")
