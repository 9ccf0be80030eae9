package main

// descriptorLimit returns how many handles the process may have, on which Windows sets no limit below its memory.
func descriptorLimit() int { return unlimitedDescriptors }
