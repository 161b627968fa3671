package stage

import _ "embed"

//go:embed elf/arm64.elf
var program []byte
