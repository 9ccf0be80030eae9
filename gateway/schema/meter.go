package schema

import (
	"reflect"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// meter ends a check that takes too long, by a panic that [Schema.Check] recovers: the validator takes no context.
type meter struct{ deadline time.Time }

// spend panics once the deadline has passed.
func (m *meter) spend() {
	if time.Now().After(m.deadline) {
		panic(errTooCostly)
	}
}

// watch makes each evaluation of a schema look at the clock first. The schema becomes one that refers to its former self and
// asserts a format, which is the hook: the validator calls it before it follows the reference.
func (m *meter) watch(s *jsonschema.Schema) {
	was := *s
	// By reflection, so that keywords which a later version of the library adds are cleared too.
	for _, field := range reflect.ValueOf(s).Elem().Fields() {
		if field.CanSet() {
			field.SetZero()
		}
	}
	s.DraftVersion, s.Location = was.DraftVersion, was.Location
	s.DynamicAnchor, s.RecursiveAnchor = was.DynamicAnchor, was.RecursiveAnchor // other schemas find it by these
	s.Ref = &was
	s.Format = &jsonschema.Format{Name: "promptweir-clock", Validate: func(any) error {
		m.spend()
		return nil
	}}
}
