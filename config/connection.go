package config

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// Connection returns what a connection to one of the URLs is made of, the one at an index: bytes that differ as soon as anything does
// on which it depends what the server lists for the gateway, or how the gateway asks. That is everything but the names of upstream and
// team, and what only concerns the prompts once they are listed. The bytes contain secrets.
func (u Upstream) Connection(i int) []byte {
	u.URLs = u.URLs[i : i+1]
	u.Name, u.Team, u.Place, u.Prefix, u.WhenDown, u.Grace, u.shown = "", "", Place{}, "", "", 0, nil
	return appendValue(nil, reflect.ValueOf(u))
}

// appendValue appends a value such that different ones of the same type become different bytes. It follows pointers, and reads
// unexported fields: an attribute that is added later is part of a connection unless somebody decides otherwise.
func appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		return append(dst, v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(dst, v.Int())
	case reflect.Float64:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float()))
	case reflect.Pointer:
		if v.IsNil() {
			return append(dst, 0)
		}
		return appendValue(append(dst, 1), v.Elem())
	case reflect.Slice:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		for i := range v.Len() {
			dst = appendValue(dst, v.Index(i))
		}
		return dst
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		dst = binary.AppendUvarint(dst, uint64(len(keys)))
		for _, key := range keys {
			dst = appendValue(appendValue(dst, key), v.MapIndex(key))
		}
		return dst
	case reflect.Struct:
		for _, field := range v.Fields() {
			dst = appendValue(dst, field)
		}
		return dst
	default:
		panic(fmt.Sprintf("config: a connection cannot depend on a %s", v.Type()))
	}
}
