"""What the gateway counts about itself: for `status`, for the log, for a monitoring system.

`instruments` are the counters and histograms, `measures` says which there are and observes what is done,
`tools/gauges` reads the rest off a status, `activity` sums up for people, `openmetrics` writes
for machines. No text of a memory and no query is ever part of it.
"""
