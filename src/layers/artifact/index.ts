// Artifacts of build tools: bytes under a key, as one timeline each. The server implements the protocols that tools
// use.

export { type About, type Artifact, type ArtifactMeta, Artifacts, type Upload } from './artifacts.ts'
export { artifactCache, artifactKind } from './model.ts'
export { type ArtifactPlace, checkPlace, checkScope, checkSpace } from './place.ts'
