"""A check of machines before a job of many processes: hardware, products, and exchanges between pairs."""
