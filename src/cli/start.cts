// From here on the Node is known to be new enough for modules.

import('./main.js').then((cli) => cli.main(process.argv.slice(2)))
