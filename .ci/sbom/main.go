// Command sbom writes the software bill of materials of a Go program, in CycloneDX JSON, to standard output: the modules that
// the program's build information names.
//
//	go run -modfile=.ci/release.mod ./.ci/sbom FILE VERSION
//
// The same program has the same bill: it has no time and no serial number.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom FILE VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	info.Main.Version = version // the build has none of its own where it was made without git
	main := component(&info.Main, cdx.ComponentTypeApplication)
	components := []cdx.Component{{
		BOMRef: "pkg:generic/go@" + info.GoVersion[len("go"):], Type: cdx.ComponentTypePlatform, Name: "go", Version: info.GoVersion,
	}}
	uses := []string{components[0].BOMRef}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		c := component(module, cdx.ComponentTypeLibrary)
		components, uses = append(components, c), append(uses, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	return cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component returns a module as a component. Its hash in go.sum is no hash of a file, and is left out.
func component(module *debug.Module, kind cdx.ComponentType) cdx.Component {
	url := "pkg:golang/" + strings.ToLower(module.Path) + "@" + module.Version
	return cdx.Component{BOMRef: url, Type: kind, Name: module.Path, Version: module.Version, PackageURL: url}
}
