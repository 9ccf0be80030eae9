package upstream_test

import "errors"

func stopProcess(int) error { return errors.ErrUnsupported }

func continueProcess(int) error { return errors.ErrUnsupported }
