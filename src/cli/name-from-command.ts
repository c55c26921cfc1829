// Derives a name from the words of a command line.

/** @example nameFromCommand(['npm', 'run', 'build']) // 'npm-run-build' */
export function nameFromCommand(words: readonly string[]): string {
  const name = words
    .join('-')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 60)
    .replace(/-+$/, '')
  return name === '' ? 'command' : name
}
