"""What exceptions are called, and whose failure each name stands for.

Harbor records the name of an exception's type and nothing else of it, so no subclass is known to
be one: every name stands here by itself. A test holds the lists in step with Harbor's own table.
"""

from __future__ import annotations

from typing import Final

AGENT_TIMEOUT: Final = "AgentTimeoutError"
AGENT_TYPES: Final = frozenset(
    {
        "AgentSafetyRefusalError",
        "ContentFilterFinishReasonError",
        "ContentPolicyViolationError",
        "ContextLengthExceededError",
        "ContextWindowExceededError",
        "LengthFinishReasonError",
        "NonZeroAgentExitCodeError",
        "OutputLengthExceededError",
        "OutputTokenExceededError",
    }
)
# The sandbox (Harbor, huggingface_hub) or the way to it or to the server (httpx, httpcore, Python).
BROKEN_TYPES: Final = frozenset(
    {
        "AddTestsDirError",
        "AgentSetupTimeoutError",
        "DownloadVerifierDirError",
        "EnvironmentStartTimeoutError",
        "GKEExecStreamClosedError",
        "GKEPodNotFoundError",
        "HealthcheckError",
        "MemoryLimitExceededError",
        "RuntimeRequestError",
        "SSHAccessError",
        "SandboxBuildFailedError",
        "SandboxCommandError",
        "SandboxError",
        "SandboxLikelyOutOfMemoryError",
        "BrokenPipeError",
        "CloseError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "NetworkConnectionError",
        "NetworkError",
        "PoolTimeout",
        "ProxyError",
        "ReadError",
        "ReadTimeout",
        "RemoteProtocolError",
        "TimeoutError",
        "TimeoutException",
        "WriteError",
        "WriteTimeout",
        "gaierror",
    }
)
# The model's server did not answer (litellm, openai, Harbor's installed agents).
SERVER_TYPES: Final = frozenset(
    {
        "APIConnectionError",
        "APIError",
        "APITimeoutError",
        "ApiConnectionClosedError",
        "ApiConnectionError",
        "ApiError",
        "ApiInternalServerError",
        "ApiOverloadedError",
        "ApiRateLimitError",
        "ApiResponseStalledError",
        "ApiUsageLimitError",
        "BadGatewayError",
        "InternalServerError",
        "MidStreamFallbackError",
        "RateLimitError",
        "ServiceUnavailableError",
        "Timeout",
        "UnknownApiError",
    }
)
INFRASTRUCTURE_TYPES: Final = BROKEN_TYPES | SERVER_TYPES
VERIFIER_TYPES: Final = frozenset(
    {
        "RewardFileEmptyError",
        "RewardFileNotFoundError",
        "VerifierOutputParseError",
        "VerifierTimeoutError",
    }
)
INTERRUPTED_TYPES: Final = frozenset({"CancelledError"})

# What is wrong, in words that end "the run was set up wrong: …".
AUTHENTICATION: Final = "a token or key was refused"
PAYMENT: Final = "no credit, or a budget is used up"
PERMISSION: Final = "a permission is missing"
MODEL: Final = "the server does not know the model"
REQUEST: Final = "the server refuses the request (chat template or parameters)"
HUB: Final = "the Hub refuses the request"
INSTALLATION: Final = "a package or a credential is missing on this machine"
TASK: Final = "the task or the environment's settings are not usable"

SETUP_TYPES: Final[dict[str, str]] = {
    "AgentAuthenticationError": AUTHENTICATION,
    "AuthenticationError": AUTHENTICATION,
    "CallerCredentialAuthenticationError": AUTHENTICATION,
    "OAuthError": AUTHENTICATION,
    "OIDCError": AUTHENTICATION,
    "BudgetExceededError": PAYMENT,
    "PaymentRequiredError": PAYMENT,
    "GatedRepoError": PERMISSION,
    "PermissionDeniedError": PERMISSION,
    "ApiProviderResourceNotFoundError": MODEL,
    "ModelNotFoundError": MODEL,
    "NotFoundError": MODEL,
    "APIResponseValidationError": REQUEST,
    "BadRequestError": REQUEST,
    "EndpointNotSupportedByModelError": REQUEST,
    "InvalidRequestError": REQUEST,
    "LiteLLMUnknownProvider": REQUEST,
    "UnprocessableEntityError": REQUEST,
    "UnsupportedEndpointError": REQUEST,
    "UnsupportedModelParametersError": REQUEST,
    "UnsupportedParamsError": REQUEST,
    "DisabledRepoError": HUB,
    "RepositoryNotFoundError": HUB,
    "RevisionNotFoundError": HUB,
    "DspyImportError": INSTALLATION,
    "LocalTokenNotFoundError": INSTALLATION,
    "MissingExtraError": INSTALLATION,
    "RegradeError": TASK,
    "ServiceOperationsUnsupportedError": TASK,
    "VercelScopeError": PERMISSION,
}
# These say only that an HTTP call failed; its status decides.
STATUS_TYPES: Final = frozenset(
    {"APIStatusError", "HTTPStatusError", "HfHubHTTPError", "JobNotFoundError"}
)
STATUS_CAUSES: Final[dict[int, str]] = {
    401: AUTHENTICATION,
    402: PAYMENT,
    403: PERMISSION,
}
# Before the agent starts these are what code raises at settings that it cannot use; everything
# else that is unknown there is an environment or an agent that could not be set up.
UNUSABLE_TYPES: Final = frozenset(
    {
        "AttributeError",
        "FileNotFoundError",
        "ImportError",
        "KeyError",
        "ModuleNotFoundError",
        "NotImplementedError",
        "TypeError",
        "ValidationError",
        "ValueError",
    }
)

# By hand: `harbor job resume --filter-error-type …` for about the same meaning of "repeat".
SEED_FILTER_TYPES: Final = (
    "SandboxError",
    "InternalServerError",
    "ReadTimeout",
    "ReadError",
    "ConnectTimeout",
    "RemoteProtocolError",
)


# All names in Harbor 0.26's own table, `harbor/models/trial/error_policy.py`.
HARBOR_KNOWS: Final = frozenset(
    """
    APIConnectionError APIError APIResponseValidationError AddTestsDirError
    AgentAuthenticationError AgentSafetyRefusalError AgentSetupTimeoutError AgentTimeoutError
    ApiConnectionClosedError ApiConnectionError ApiError ApiInternalServerError ApiOverloadedError
    ApiProviderResourceNotFoundError ApiRateLimitError ApiResponseStalledError ApiUsageLimitError
    AuthenticationError BadRequestError BudgetExceededError CancelledError
    ContentPolicyViolationError ContextLengthExceededError ContextWindowExceededError
    DownloadVerifierDirError DspyImportError EnvironmentStartTimeoutError GKEExecStreamClosedError
    GKEPodNotFoundError HealthcheckError InternalServerError MemoryLimitExceededError
    MissingExtraError ModelNotFoundError NetworkConnectionError NonZeroAgentExitCodeError
    NotFoundError OutputLengthExceededError OutputTokenExceededError PermissionDeniedError
    RateLimitError RegradeError RewardFileEmptyError RewardFileNotFoundError RuntimeRequestError
    SSHAccessError SandboxBuildFailedError SandboxLikelyOutOfMemoryError
    ServiceOperationsUnsupportedError ServiceUnavailableError Timeout UnknownApiError
    UnprocessableEntityError UnsupportedModelParametersError UnsupportedParamsError
    VercelScopeError VerifierOutputParseError VerifierTimeoutError
    """.split()  # noqa: SIM905 (a list that is read, not run)
)


def error_policy_overrides() -> dict[str, dict[str, bool]]:
    """Harbor's `override_error_policy` that makes its classes agree with ours.

    By itself Harbor grades and scores every type that it does not know, a sandbox that broke under
    the agent included. Work in a broken sandbox is not graded; that of an agent whose server went
    away is, so that its reward can be shown, though it counts for nothing. Only what Harbor's own
    table lacks is told: each entry is written into every trial's result.json.
    """
    broken = {"should_grade": False, "has_valid_reward": False}
    away = {"has_valid_reward": False}
    setup = {"should_retry": False, "has_valid_reward": False}
    overrides = (
        dict.fromkeys(BROKEN_TYPES | STATUS_TYPES, broken)
        | dict.fromkeys(SERVER_TYPES, away)
        | dict.fromkeys(SETUP_TYPES, setup)
    )
    return {name: dict(overrides[name]) for name in sorted(overrides.keys() - HARBOR_KNOWS)}
