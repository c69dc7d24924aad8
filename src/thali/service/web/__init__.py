"""What a browser shows: the page at ``/``, which uses only the API, and the API reference at ``/docs``."""
