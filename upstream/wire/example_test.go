package wire_test

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Members that are not changed keep their bytes: escapes, the spelling of numbers, and order.
func ExampleObject_With() {
	params, err := wire.ParseObject([]byte(`{"n\u0061me":"docs.review","limit":1.50,"arguments":{ }}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(params.With("name", wire.Quote("review")).JSON())
	// Output: {"n\u0061me":"review","limit":1.50,"arguments":{ }}
}

// Reading is strict, so that no two readers can disagree about a message.
func ExampleParse() {
	_, err := wire.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","method":"prompts/get"}`))
	fmt.Println(err)
	// Output: Parse error: duplicate name "method" in an object (-32700)
}

// A server request is passed on only to a client that declared what it takes.
func ExampleCapabilities() {
	declared, err := wire.ParseObject([]byte(`{"elicitation":{"url":{}},"roots":{"listChanged":true}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	client := wire.ReadCapabilities(declared)
	form := wire.Members(jsontext.Value(`{"mode":"form","message":"Which branch?"}`))
	fmt.Println(client.Has(wire.NeededCapability(wire.Elicit, form)))
	fmt.Println(client.Object().JSON())
	fmt.Println(client.In(wire.Rev20250618).Object().JSON()) // which has no elicitation by URL
	// Output:
	// false
	// {"elicitation":{"url":{}},"roots":{}}
	// {"roots":{}}
}
