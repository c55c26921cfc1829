// fast-check as tests get it (vitest.config.ts): a list that says how long it may be gets that long. By itself fast-check
// stops near ten elements whatever a list says, and a history of ten steps does not show what thirty do.

import fc from 'fast-check'

fc.configureGlobal({ defaultSizeToMaxWhenMaxSpecified: true })

export * from 'fast-check'
export default fc
