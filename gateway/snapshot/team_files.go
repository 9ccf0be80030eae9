package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxTeamFiles bounds the texts of all team files together, in bytes.
const maxTeamFiles = 64 << 20

// teamFilesPath returns where the team files of the configuration in a folder are.
func teamFilesPath(dir, root string) string {
	// Lists end in .json, so that no upstream's label can make the same name.
	return filepath.Join(dir, "teams-"+digest([]byte(root))[:16]+".lastgood")
}

// saveTeamFiles replaces the file with the team files of a configuration.
func saveTeamFiles(dir string, files config.TeamFiles) error {
	if files.Root == "" {
		return nil
	}
	texts, size := make(wire.Object, 0, len(files.Texts)), 0
	for _, name := range slices.Sorted(maps.Keys(files.Texts)) {
		text := files.Texts[name].Reveal()
		if size += len(name) + len(text); size > maxTeamFiles {
			return fmt.Errorf("they are larger than %d bytes together", maxTeamFiles)
		}
		texts = append(texts, wire.Member{Name: name, Value: wire.Quote(text)})
	}
	content := texts.JSON()
	platform, err := json.Marshal(files.Platform)
	if err != nil {
		return err
	}
	return replaceFile(teamFilesPath(dir, files.Root), wire.Object{}.
		With("format", jsontext.Value(listFormat)).
		With("folder", wire.Quote(files.Root)).
		With("sha256", wire.Quote(digest(slices.Concat(content, platform)))).
		With("platform", platform).
		With("files", content).JSON())
}

// ReadTeamFiles returns the team files that a gateway with the configuration in a folder has saved
// in a state_dir. They are empty if there are none.
func ReadTeamFiles(dir, folder string) (files config.TeamFiles, err error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return config.TeamFiles{}, err
	}
	path := teamFilesPath(dir, root)
	object, err := readSaved(path, 8*maxTeamFiles) // JSON may escape each byte
	if errors.Is(err, fs.ErrNotExist) {
		return config.TeamFiles{}, nil
	}
	if err != nil {
		return config.TeamFiles{}, err
	}
	texts, platform := object.Get("files"), object.Get("platform")
	saved, _ := object.Text("folder")
	sum, _ := object.Text("sha256")
	if saved != root || sum != digest(slices.Concat(texts, platform)) {
		return config.TeamFiles{}, fmt.Errorf("%s: its content does not match its sha256, or is "+
			"about another folder", path)
	}
	files = config.TeamFiles{Root: root, Texts: map[string]config.Secret{}}
	for _, member := range wire.Members(texts) {
		text, _ := wire.Text(member.Value)
		files.Texts[member.Name] = config.NewSecret(text)
	}
	if platform == nil { // it was saved by an earlier version
		return files, nil
	}
	return files, json.Unmarshal(platform, &files.Platform)
}
