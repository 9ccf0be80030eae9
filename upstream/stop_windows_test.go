package upstream_test

import "errors"

func stopProcess(int) error { return errors.ErrUnsupported }
