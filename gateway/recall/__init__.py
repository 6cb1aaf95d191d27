"""Telling a model before its turn what memory holds on the prompt.

`prompts` says which prompts need nothing, `selecting` what of a search is told and how it is written. Both are pure;
`gateway.agent.recalling` puts them together, with what a conversation has seen already (`gateway.recalled`), and
answers the hooks of clients.
"""
