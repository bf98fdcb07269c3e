package verb

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// FilesCommand returns the cobra command of a verb that reads files: those of -f, and the
// arguments, which are what a shell makes of -f *.yaml.
func (v Verb) FilesCommand(run func(ctx context.Context, files []string) error) *cobra.Command {
	var files []string
	cmd := v.Command(cobra.ArbitraryArgs, func(cmd *cobra.Command, more []string) error {
		files = append(files, more...)
		if len(files) == 0 {
			return errors.New("-f: must specify a file, a directory, or - for standard input")
		}
		return run(cmd.Context(), files)
	})
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "files, directories, or - for standard input")
	return cmd
}
