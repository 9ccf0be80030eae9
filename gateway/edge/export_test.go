package edge

// OnRequest is onRequest, for tests of what refused requests are told.
func (c *Conn) OnRequest(admit func() bool) { c.onRequest(admit) }
