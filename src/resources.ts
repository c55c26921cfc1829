// reprise/resources: a control plane. Objects of a kind with list and watch, and configuration that is pushed to
// clients, each of which accepts or refuses it.

export * from './layers/config/index.ts'
export * from './layers/resource/index.ts'
