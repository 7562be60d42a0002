"""The ISA as data: targets, formats, forms, tables of instructions, legality."""
