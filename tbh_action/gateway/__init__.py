"""The loopback endpoint in front of the model server(s): the one address that Harbor is given.

The server behind it may be replaced, doubled or gone for a while; a model call in Harbor sees a
slow answer at worst. Harbor holds a random key of this run, never the Hub's token.
"""

from tbh_action.gateway.app import Gateway
from tbh_action.gateway.balance import Upstream
from tbh_action.gateway.serving import serve
from tbh_action.gateway.stats import TrialStats

__all__ = ["Gateway", "TrialStats", "Upstream", "serve"]
