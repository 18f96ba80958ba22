// left-server.mjs: starts a server, prints its pid, and ends as WAY says without ending it: "return", "throw", or "stay".
import { serve } from './server.mjs';

const server = await serve();
console.log(`pid ${server.pid}`);
if (process.argv[2] === 'throw') throw new Error('as it was asked to');
if (process.argv[2] === 'stay') setInterval(() => {}, 1000);
