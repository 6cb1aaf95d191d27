"""Telling a model before its turn what memory holds on the prompt.

`prompts` says which prompts need nothing, `selecting` what of a search is told and how it is written, `shown` what a
conversation has seen already, `hooks` how clients ask and are answered. All of it is
pure; `gateway.agent.recalling` puts it together.
"""
