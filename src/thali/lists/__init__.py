"""Ways to build a list: greedily, optimally for known preferences, or by balancing relevance against similarity."""

from thali.lists import diversity
from thali.lists.greedy import Builder, greedy_lists
from thali.lists.optimal import optimal_list

__all__ = ["Builder", "diversity", "greedy_lists", "optimal_list"]
