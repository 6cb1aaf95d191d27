"""How results look to people: texts and tables made of typed results. Pure."""
