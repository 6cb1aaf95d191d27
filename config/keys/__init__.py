"""Every key that memory reads, stated once: validation, merging, output and reference follow from it.

`table.SECTIONS` is the table. A key's default is not in it: it stands in `config.settings`, beside the field
that the key fills.
"""
