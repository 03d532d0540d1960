"""How a module is exported to a runtime and run there by the runtime's own means, a file for each; see `repro`."""
