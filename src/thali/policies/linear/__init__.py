"""The linear family of policies: CascadeLSB, which is the paper's algorithm, and its relatives.

- ``policy.py`` chooses lists and learns.
- ``learning.py`` is Algorithm 1, lines 13-17.
- ``posterior.py`` computes M⁻¹ and M⁻¹B, from which θ̄ follows (line 4).
- ``forgetting.py`` makes old impressions count less.
- ``members.py`` defines the named policies of the family.
"""
