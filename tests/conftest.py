from hypothesis import settings

# The first example of a test may compile kernels.
settings.register_profile("thali", deadline=None)
settings.load_profile("thali")
