// JuiceFS' program.
package main

import (
	"log"
	"os"

	"github.com/juicedata/juicefs/cmd"
)

func main() {
	if err := cmd.Main(os.Args); err != nil {
		log.Fatal(err)
	}
}
