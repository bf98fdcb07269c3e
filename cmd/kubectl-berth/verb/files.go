package verb

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// FilesCommand makes the verb a command that reads files: those of -f, and what
// a shell made of -f *.yaml behind it.
func (v Verb) FilesCommand(run func(ctx context.Context, files []string) error) *cobra.Command {
	var files []string
	cmd := v.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, more []string) error {
		files = append(files, more...)
		if len(files) == 0 {
			return errors.New("-f: name a file, a folder, or - for standard input")
		}
		return run(cmd.Context(), files)
	})
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files, folders, or - for standard input")
	return cmd
}
