package serving

// HideMemory does nothing: Windows has no way to forbid a user's own processes to read each other.
func HideMemory() error { return nil }

// descriptorLimit returns how many handles the process may have, on which Windows sets no limit
// below its memory.
func descriptorLimit() int { return unlimitedDescriptors }
