"""The linear family: CascadeLSB, the paper's algorithm, and its relatives.

- ``policy.py`` chooses lists and learns;
- ``learning.py`` is Algorithm 1, lines 13-17;
- ``posterior.py`` computes θ̄ and M⁻¹ (line 4);
- ``forgetting.py`` makes old impressions count less;
- ``members.py`` defines the named policies of the family.
"""
