"""Deliveries that programs in the field load and speak with, and what each of them expects of a file.

- `known_clients.contract` returns what a program expects, as data: a `client_contract.ClientContract`.
- `client_delivery.deliver_to` writes a complete folder for one.
- `client_programs.speak_in` speaks with the program itself, in a process of its own.
- `probe` writes a file whose audio is what the program fed to it, and reads that audio.
- `delivery_check.check_delivery` compares a folder that others made with the contract.
"""
