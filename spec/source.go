package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "sigs.k8s.io/yaml/goyaml.v3"
)

// The bounds of a file.
const (
	MaxFileSize = 1 << 20 // bytes
	maxDepth    = 64      // lists and objects inside each other
	maxAliased  = 100_000 // values that aliases stand for, in a document
	maxCopied   = 4 << 20 // bytes that aliases stand for, in a document
	maxObjects  = 4096    // in a file
	maxFaults   = 100     // reported of a file
)

const noControl = "a manifest must not contain control characters: write them as escapes in double quotes, such as \"\\x1b\""

var tooManyObjects = fmt.Sprintf("a file must hold at most %d objects: split it", maxObjects)

// document is a document of a file, before it is understood.
type document struct {
	index int
	root  *yaml.Node // nil = nothing but comments
}

// readDocuments cuts a file into documents. Faults are of the text; a faulty document does not hide the others.
func readDocuments(file string, data []byte) ([]document, []Fault) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if fault, ok := checkBytes(data); !ok {
		return nil, []Fault{fault}
	}
	if isJSON(file, data) {
		root, fault := readJSON(data)
		if fault != nil {
			return nil, []Fault{*fault}
		}
		return []document{{root: root}}, nil
	}
	if i := bytes.IndexByte(data, 0x7f); i >= 0 {
		f := Fault{Kind: FaultInvalid, Detail: noControl} // JSON has it, YAML has not
		f.Line, f.Column = position(data, i)
		return nil, []Fault{f}
	}
	if i := oddLineEnd(data); i >= 0 {
		f := Fault{Kind: FaultInvalid, Detail: "a line must end with a newline: a lone carriage return, U+0085, U+2028 and U+2029 end lines in YAML 1.1 alone"}
		f.Line, f.Column = position(data, i)
		return nil, []Fault{f}
	}
	var documents []document
	var faults []Fault
	chunks := splitDocuments(data)
	if len(chunks) > maxObjects {
		return nil, []Fault{{Line: chunks[maxObjects].line + 1, Kind: FaultTooMany, Detail: tooManyObjects}}
	}
	for _, c := range chunks {
		root, fault := readYAML(c.text, c.line)
		if fault == nil && root != nil {
			fault = checkShape(root)
		}
		if fault != nil {
			fault.Document = c.index
			faults = append(faults, *fault)
			continue
		}
		documents = append(documents, document{index: c.index, root: root})
	}
	return documents, faults
}

// checkBytes refuses what is no text of ours at all.
func checkBytes(data []byte) (Fault, bool) {
	if len(data) > MaxFileSize {
		return Fault{Kind: FaultTooLong, Detail: fmt.Sprintf("a manifest file must be at most 1 MiB; this one has %d bytes: split it", len(data))}, false
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		f := Fault{Kind: FaultInvalid, Detail: "a manifest must not contain NUL: this is not a text file"}
		f.Line, f.Column = position(data, i)
		return f, false
	}
	if i := bytes.IndexFunc(data, isFileControl); i >= 0 && utf8.Valid(data) {
		f := Fault{Kind: FaultInvalid, Detail: noControl}
		f.Line, f.Column = position(data, i)
		return f, false
	}
	if !utf8.Valid(data) {
		i := 0
		for i < len(data) {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size <= 1 {
				break
			}
			i += size
		}
		f := Fault{Kind: FaultInvalid, Detail: "a manifest must be UTF-8: save the file in that encoding"}
		f.Line, f.Column = position(data, i)
		return f, false
	}
	return Fault{}, true
}

// oddLineEnd is the offset of a line end that not every YAML takes for one, else -1.
func oddLineEnd(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\r' && (i+1 == len(data) || data[i+1] != '\n'),
			c == 0xc2 && i+1 < len(data) && data[i+1] == 0x85,
			c == 0xe2 && i+2 < len(data) && data[i+1] == 0x80 && (data[i+2] == 0xa8 || data[i+2] == 0xa9):
			return i
		}
	}
	return -1
}

func isFileControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' }

// position is the line and column of a byte, both from 1.
func position(data []byte, offset int) (line, column int) {
	before := data[:offset]
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// isJSON reports whether a file is to be read as JSON: by its name, or because JSON is what it holds. (YAML takes most
// JSON, but for tabs.)
func isJSON(file string, data []byte) bool {
	if filepath.Ext(file) == ".json" {
		return true
	}
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return false
	}
	_, fault := readJSON(data)
	return fault == nil
}

// chunk is the text of one YAML document.
type chunk struct {
	index int
	line  int // of its first line in the file, from 0
	text  []byte
}

// splitDocuments cuts at the lines that begin with `---`; YAML allows them nowhere else, not even in a block of text.
// Each document is parsed by itself so that a fault in one does not hide those of the next.
func splitDocuments(data []byte) []chunk {
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	flush := func(end int) {
		text := data[start:end]
		if len(chunks) == 0 && isBlank(text) {
			return // comments before the first marker are no document
		}
		chunks = append(chunks, chunk{index: len(chunks), line: startLine, text: text})
	}
	for at := 0; at < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if isMarker(data[at:next]) && at > start && !isDirectives(data[start:at]) {
			flush(at)
			start, startLine = at, line
		}
		at = next
	}
	flush(len(data))
	return chunks
}

func isMarker(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0)
}

// isBlank reports a text of comments, markers and white space.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if !isEmptyLine(line) && string(bytes.TrimRight(line, " \t\r\n")) != "---" {
			return false
		}
	}
	return true
}

// isEmptyLine reports a line of white space, a comment or a document's end. An indented marker is none: it is a word.
func isEmptyLine(line []byte) bool {
	text := bytes.TrimRight(line, " \t\r\n")
	if string(text) == "..." {
		return true
	}
	text = bytes.TrimLeft(text, " \t")
	return len(text) == 0 || text[0] == '#'
}

// isDirectives reports a text that belongs to the document whose marker follows.
func isDirectives(text []byte) bool {
	found := false
	for line := range bytes.Lines(text) {
		switch {
		case isEmptyLine(line):
		case line[0] == '%':
			found = true
		default:
			return false
		}
	}
	return found
}

// readYAML parses one document; its nodes get the lines that they have in the file.
func readYAML(text []byte, line int) (root *yaml.Node, fault *Fault) {
	defer func() {
		// The parser is not ours, and it answers broken input here and there with a panic: that is a fault of the file.
		if r := recover(); r != nil {
			root, fault = nil, &Fault{Line: line + 1, Kind: FaultInvalid, Detail: "the YAML parser cannot read this document: simplify it"}
		}
	}()
	if isBlank(text) {
		return nil, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var n yaml.Node
	if err := decoder.Decode(&n); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxFault(err, text, line)
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err == nil {
		return nil, &Fault{Line: line + more.Line, Kind: FaultInvalid, Detail: "documents must be separated by a line '---'"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(err, text, line)
	}
	root = &n
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if line > 0 {
		shift(root, line)
	}
	return root, nil
}

// shift moves the lines of a tree from its document to its file.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines)
	}
}

// syntaxFault turns the parser's words into a fault with a line of the file.
func syntaxFault(err error, text []byte, offset int) *Fault {
	words := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(words, "line "); ok {
		if number, message, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				line, words = n, message
			}
		}
	}
	if strings.HasPrefix(words, "did not find expected") {
		line++ // of these the parser counts the lines from 0
	}
	f := &Fault{Kind: FaultInvalid, Detail: "this is not YAML: " + words}
	if tab := tabLine(text, line); tab > 0 {
		line = tab
		f.Detail = "this line is indented with a tab: YAML wants spaces"
	}
	f.Line = offset + max(line, 1)
	return f
}

// tabLine is the line at or next to a parser's complaint that is indented with a tab, else 0. (The parser counts some
// lines from 0 and some from 1.)
func tabLine(text []byte, near int) int {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if n > near+1 {
			break
		}
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if n >= near-1 && bytes.IndexByte(indent, '\t') >= 0 && len(bytes.TrimSpace(line)) > 0 {
			return n
		}
	}
	return 0
}

// checkShape bounds how deep a tree goes and what its aliases stand for, before anything walks it.
func checkShape(root *yaml.Node) *Fault {
	aliased, copied := 0, 0
	inside := map[*yaml.Node]bool{}
	var visit func(n *yaml.Node, depth int, inAlias bool) *Fault
	visit = func(n *yaml.Node, depth int, inAlias bool) *Fault {
		if depth > maxDepth {
			return &Fault{Line: n.Line, Column: n.Column, Kind: FaultTooMany, Detail: fmt.Sprintf("lists and objects must not be nested more than %d deep", maxDepth)}
		}
		if inAlias {
			aliased++
			copied += len(n.Value)
			if aliased > maxAliased || copied > maxCopied {
				return &Fault{Kind: FaultTooMany, Detail: fmt.Sprintf("aliases must not stand for more than %d values or %d bytes: write the values out", maxAliased, maxCopied)}
			}
		}
		if n.Kind == yaml.AliasNode {
			if inside[n.Alias] {
				return &Fault{Line: n.Line, Column: n.Column, Kind: FaultInvalid, Detail: "an alias must not stand inside of what it stands for"}
			}
			inside[n.Alias] = true
			defer delete(inside, n.Alias)
			if f := visit(n.Alias, depth+1, true); f != nil {
				f.Line, f.Column = n.Line, n.Column
				return f
			}
			return nil
		}
		for _, c := range n.Content {
			if f := visit(c, depth+1, inAlias); f != nil {
				return f
			}
		}
		return nil
	}
	return visit(root, 0, false)
}
