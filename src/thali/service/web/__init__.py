"""What a browser is shown: the page at ``/``, and the API's reference at ``/docs``. It speaks to the API only."""
