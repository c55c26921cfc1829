// `npm start`: the tour. The same as `reprise demo`.

import { main } from '../lib/cli/main.js'

await main(['demo', ...process.argv.slice(2)])
