"""How a learner decides and learns: one family a file, and the registry of those the library ships."""

from thali.policies.base import Policy
from thali.policies.klucb import CascadeKLUCB
from thali.policies.linear import CascadeLinUCB, CascadeLSB, LinearPolicy, LSBGreedy
from thali.policies.state import State, load_state

#: Name → class; the contract test and the experiments know a policy by its place here.
POLICIES: dict[str, type[Policy]] = {
    policy.__name__: policy for policy in (CascadeLSB, LSBGreedy, CascadeLinUCB, CascadeKLUCB)
}

__all__ = [
    "POLICIES",
    "CascadeKLUCB",
    "CascadeLSB",
    "CascadeLinUCB",
    "LSBGreedy",
    "LinearPolicy",
    "Policy",
    "State",
    "load_state",
]
