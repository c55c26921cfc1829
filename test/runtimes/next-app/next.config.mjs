// The root is named, because Next.js would look for a lockfile in the folders above.

export default { outputFileTracingRoot: import.meta.dirname, turbopack: { root: import.meta.dirname } }
